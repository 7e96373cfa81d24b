set number 20
set transactions 20
run
run
