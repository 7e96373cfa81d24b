set number 100
run