set size 500 500000
set number 5000
set transactions 10000
set read 4096
set write 4096
set location /mnt/test
run
quit
