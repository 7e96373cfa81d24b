set transactions 5
run
