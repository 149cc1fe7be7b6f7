/** Directories on the disk, and advice for operators about faults of the disk. */
import { existsSync, mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

export function diskAdvice(message: string): string {
  if (isDiskFull(message)) return 'free space on the disk'
  if (/Permission denied|EACCES|EPERM|EROFS|Read-only/i.test(message))
    return 'make the data directory writable for this user'
  if (isOutOfFiles(message)) return OPEN_FILES_ADVICE
  return 'repair the disk'
}

const isDiskFull = (message: string): boolean => /No space left|ENOSPC|EDQUOT|quota/i.test(message)

/**
 * Describes a failure for an operator; a full disk is named before the system's own words.
 * @param path of the directory; by default the one that the message names
 */
export function diskFault(message: string, path?: string): string {
  if (!isDiskFull(message)) return message
  const directory = path ?? FOLDER_IN_TEXT.exec(message)?.[1] ?? 'the data directory'
  return `no space left on the device that holds ${directory} (${message})`
}

/** The folder of the first file that a message names. */
const FOLDER_IN_TEXT = /(?:^|[\s'"(])((?:\/[^/:'"]+)+)\/[^/:'"]*/

export const isOutOfFiles = (message: string): boolean =>
  /Too many open files|EMFILE|ENFILE/i.test(message)
export const OPEN_FILES_ADVICE = 'allow this process more open files (ulimit -n 4096)'

/**
 * Makes a directory and its parents. Node's recursive form never returns where the system reports
 * ENOENT for a new directory, as /proc does (24.21).
 * @throws the system's error
 */
export function makeDirectory(path: string): void {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) return
  const above = dirname(path)
  if (!existsSync(above)) makeDirectory(above)
  mkdirSync(path)
}
