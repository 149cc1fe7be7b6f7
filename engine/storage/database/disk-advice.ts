/** What to do about a fault of the disk. */

/** By the words that RocksDB and the system have for the fault. */
export function diskAdvice(message: string): string {
  if (/No space left|ENOSPC|EDQUOT|quota/i.test(message)) return 'free space on the disk'
  if (/Permission denied|EACCES|EPERM|EROFS|Read-only/i.test(message))
    return 'make the data directory writable for this user'
  if (isOutOfFiles(message)) return OPEN_FILES_ADVICE
  return 'repair the disk'
}

/** The process has as many files open as it may. */
export const isOutOfFiles = (message: string): boolean =>
  /Too many open files|EMFILE|ENFILE/i.test(message)
export const OPEN_FILES_ADVICE = 'allow this process more open files (ulimit -n 4096)'
