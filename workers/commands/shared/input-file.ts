/** A file that a command reads as a stream. */
import { createReadStream, statSync } from 'node:fs'
import { createGunzip } from 'node:zlib'
import { StartError } from '../../process/context.ts'

export type InputFile = {
  readonly bytes: number
  readonly chunks: AsyncIterable<Uint8Array>
  /** Number of bytes read so far, before unzipping. */
  read(): number
}

/** Opens a file, and unzips it if its name ends on .gz. @throws {StartError} */
export function openInputFile(path: string): InputFile {
  let bytes: number
  try {
    bytes = statSync(path).size
  } catch (error) {
    throw new StartError(`${path} cannot be read: ${(error as Error).message}`)
  }
  const raw = createReadStream(path)
  if (!path.endsWith('.gz')) return { bytes, chunks: raw, read: () => raw.bytesRead }
  const unzipped = createGunzip()
  raw.on('error', (error) => unzipped.destroy(error))
  return { bytes, chunks: raw.pipe(unzipped), read: () => raw.bytesRead }
}
