
set -e
git init -q "$1"
cd "$1"
seq "$2" | while read -r file; do
    mkdir -p "folder$((file % 20))"
    awk -v seed="$4$file" -v lines="$3" 'BEGIN { srand(seed); for (i = 0; i < lines; i++) print rand(), rand(), rand() }' \
        > "folder$((file % 20))/file$file"
done
git add .
git -c user.name=lab -c user.email=lab@example.com commit -q -m files
