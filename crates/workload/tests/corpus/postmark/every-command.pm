set size 100 5000
set number 100
set seed 7
set transactions 200
set location /mnt/a 2
set location +/mnt/b with a space 3
set location +/mnt/c
set location -/mnt/a
set subdirectories 10
set read 4096
set write 8192
set buffering false
set bias read -1
set bias create 5
set report terse
show
help set
run /tmp/report.txt
quit
