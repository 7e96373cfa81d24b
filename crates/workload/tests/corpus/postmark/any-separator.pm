set number:200
set seed	9
set sizes 700 7000

run
