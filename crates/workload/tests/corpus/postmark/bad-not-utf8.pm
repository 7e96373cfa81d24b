set number 10
set location /mnt/é
