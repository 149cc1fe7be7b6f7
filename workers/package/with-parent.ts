/**
 * Preloaded by a node that is a child, so that the node ends with its parent, however that ends.
 */
process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'))
// The listener alone would prevent the process's end.
process.channel?.unref()
