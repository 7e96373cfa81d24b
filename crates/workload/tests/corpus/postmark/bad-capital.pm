Set number 10
