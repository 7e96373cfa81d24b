set location /mnt/a
set location +/mnt/a 2
