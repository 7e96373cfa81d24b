set number 10
set nubmer 20
