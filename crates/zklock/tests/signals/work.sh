# The command of every zklock of a round. All processes of its group have the file of each lock open, locked with flock: so the kernel
# itself finds two commands at once, without a clock, and also if all that is left of one is a grandchild or a stopped process.
note() { echo "$(date --utc +%T.%3N) zklock $SIGNALS_NUMBER, process $BASHPID: $*" >>"$SIGNALS_NOTES"; }

for file in $SIGNALS_FILES; do
    exec {descriptor}>>"$file"
    flock --nonblock --conflict-exit-code 77 "$SIGNALS_MODE" "$descriptor"
    case $? in
    0) echo "zklock $SIGNALS_NUMBER, process $$" >>"$file" ;;
    77) note "OVERLAP on $file, last taken by $(tail -n 1 "$file")"; exit 99 ;;
    *) note "no flock: a signal has ended it"; exit 98 ;;
    esac
done
note "works: $SIGNALS_FLAVOR"

case $SIGNALS_FLAVOR in
quick) ;;
alone) sleep "$SIGNALS_WORK" ;;
stubborn) trap '' TERM INT HUP; sleep 7 ;;
family)
    # A grandchild that ignores signals outlives the others.
    (trap '' TERM INT HUP; exec sleep 7) &
    (sleep "$SIGNALS_WORK") &
    sleep 0.3
    ;;
terminal)
    { echo "a question"; stty -a; read -r -t 2 answer; } </dev/tty >/dev/tty 2>&1
    sleep 0.5
    ;;
orphans)
    # Process 1 of a namespace is zklock, the parent of orphans. A zombie is there until it is reaped.
    orphans=$(for _ in 1 2 3; do sleep 0.1 >/dev/null & echo $!; done)
    sleep 0.3
    tries=0
    while zombies=$(ps -o pid=,ppid=,stat=,args= $orphans | grep ' Z '); do
        sleep 0.1
        if ((++tries == 200)); then note "ZOMBIES: $zombies"; break; fi
    done
    ;;
esac
note "has ended"
