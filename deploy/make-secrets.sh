#!/bin/sh
# Draws the passwords of docker-compose.yml into a folder for its owner. Running it again changes nothing.
# The files are readable by the users of the containers that mount them; the folder keeps others out.
set -eu
folder=${1:-$(dirname "$0")/secrets}
umask 077
mkdir -p "$folder"
chmod 700 "$folder"
draw() { od -An -N32 -tx1 /dev/urandom | tr -d ' \n'; }
put() {
  [ -e "$folder/$1" ] || { cat >"$folder/.$1" && chmod 444 "$folder/.$1" && mv "$folder/.$1" "$folder/$1"; }
}
draw | put postgres_password
draw | put database_password
draw | put redis_password
printf 'postgres://ampoule:%s@postgres:5432/ampoule' "$(cat "$folder/database_password")" | put database_url
printf 'redis://:%s@redis:6379/0' "$(cat "$folder/redis_password")" | put redis_url
printf 'requirepass %s\nsave ""\nappendonly no\nmaxmemory 192mb\nmaxmemory-policy volatile-ttl\n' \
  "$(cat "$folder/redis_password")" | put redis.conf
echo "The passwords are in $folder, and nowhere else."
