set number 10
run
