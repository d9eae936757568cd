#!/bin/sh
# Runs once, when the database is created: adds a role that owns its database and is not a superuser.
set -eu
export DATABASE_PASSWORD_FILE
psql -v ON_ERROR_STOP=1 --quiet --username "${POSTGRES_USER:-postgres}" --dbname postgres <<'SQL'
\set password `cat "$DATABASE_PASSWORD_FILE"`
CREATE ROLE ampoule LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD :'password';
CREATE DATABASE ampoule OWNER ampoule;
REVOKE CONNECT ON DATABASE ampoule FROM PUBLIC;
SQL
