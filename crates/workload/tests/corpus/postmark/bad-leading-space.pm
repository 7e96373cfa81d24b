 set number 10
