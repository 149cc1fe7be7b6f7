/** What to do about a fault of the disk. */

/** By the words that RocksDB and the system have for the fault. */
export function diskAdvice(message: string): string {
  if (isDiskFull(message)) return 'free space on the disk'
  if (/Permission denied|EACCES|EPERM|EROFS|Read-only/i.test(message))
    return 'make the data directory writable for this user'
  if (isOutOfFiles(message)) return OPEN_FILES_ADVICE
  return 'repair the disk'
}

const isDiskFull = (message: string): boolean => /No space left|ENOSPC|EDQUOT|quota/i.test(message)

/**
 * Describes a failure for an operator. A full disk is named before the system's own words.
 * @param path of the directory; left out: the one that the message names
 */
export function diskFault(message: string, path?: string): string {
  if (!isDiskFull(message)) return message
  const directory = path ?? FOLDER_IN_TEXT.exec(message)?.[1] ?? 'the data directory'
  return `no space left on the device that holds ${directory} (${message})`
}

/** The folder of the first file that a message names. */
const FOLDER_IN_TEXT = /(?:^|[\s'"(])((?:\/[^/:'"]+)+)\/[^/:'"]*/

/** The process has as many files open as it may. */
export const isOutOfFiles = (message: string): boolean =>
  /Too many open files|EMFILE|ENFILE/i.test(message)
export const OPEN_FILES_ADVICE = 'allow this process more open files (ulimit -n 4096)'
