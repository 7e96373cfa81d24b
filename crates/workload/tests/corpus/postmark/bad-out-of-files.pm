set number 5
set transactions 20
set bias create 0
run
