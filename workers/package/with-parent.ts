/** Loaded before a node that is a child: it does not outlive who started it, however that ends. */
process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'))
// Listening alone would keep it running.
process.channel?.unref()
