#!/bin/sh
# An authority and the two certificates of a vault on tls://: make-vault-certificates.sh FOLDER VAULT-HOST...
# Keep the authority's key only if you want to renew certificates without changing both ends at once.
set -eu
[ $# -ge 2 ] || { echo "usage: $0 folder vault-host..." >&2; exit 2; }
folder=$1
shift
umask 077
mkdir -p "$folder/authority" "$folder/server" "$folder/client"
names=
for host in "$@"; do
  case $host in
    *[!0-9.]*) names="$names,DNS:$host" ;;
    *) names="$names,IP:$host" ;;
  esac
done
names=${names#,}
key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1" 2>/dev/null; }
key "$folder/authority/ca.key"
openssl req -x509 -new -key "$folder/authority/ca.key" -sha256 -days 3650 -subj "/CN=Ampoule vault authority" \
  -addext "basicConstraints=critical,CA:TRUE,pathlen:0" -addext "keyUsage=critical,keyCertSign" -out "$folder/authority/ca.crt"
sign() { # folder name usage extra
  key "$folder/$1/tls.key"
  printf 'basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=%s\nsubjectAltName=%s\n' \
    "$3" "$4" >"$folder/$1/extensions"
  openssl req -new -key "$folder/$1/tls.key" -subj "/CN=$2" |
    openssl x509 -req -sha256 -days 825 -CA "$folder/authority/ca.crt" -CAkey "$folder/authority/ca.key" -CAcreateserial \
      -extfile "$folder/$1/extensions" -out "$folder/$1/tls.crt" 2>/dev/null
  rm "$folder/$1/extensions"
  cp "$folder/authority/ca.crt" "$folder/$1/ca.crt"
}
sign server "ampoule vault" serverAuth "$names"
sign client "ampoule server" clientAuth "DNS:ampoule-server"
od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >"$folder/token"
echo "Vault: $folder/server. Server: $folder/client. Both: $folder/token (AMPOULE_VAULT_TOKEN_FILE)."
