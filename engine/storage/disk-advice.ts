/** What to do about a fault of the disk. */

/** By the words that RocksDB and the system have for the fault. */
export function diskAdvice(message: string): string {
  if (/No space left|ENOSPC|EDQUOT|quota/i.test(message)) return 'free space on the disk'
  if (/Permission denied|EACCES|EPERM|EROFS|Read-only/i.test(message))
    return 'make the data directory writable for this user'
  return 'repair the disk'
}
