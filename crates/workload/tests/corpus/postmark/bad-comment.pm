# PostMark for mail
set number 10
