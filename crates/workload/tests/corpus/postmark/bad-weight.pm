set location /mnt/a b
