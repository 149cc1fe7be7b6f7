/** A journal is read after a kill and after damage, and some copies of it are retained. */
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Bytes } from '../../../../engine/primitives/bytes.ts'
import { checksum } from '../../../../engine/primitives/checksum.ts'
import { bytesToHex } from '../../../../engine/primitives/hex.ts'
import {
  checkJournal,
  type Journal,
  JournalError,
  MAX_COPIES,
  openJournal,
  tornCopy,
} from '../../../../engine/storage/directory/journal.ts'
import {
  decodeJournal,
  encodeJournal,
} from '../../../../engine/storage/directory/journal-format.ts'
import { storageFailure } from '../../../../engine/storage/persistence/failure.ts'
import { temporaryDirectory } from '../../../fixtures/databases.ts'

const record = fc.uint8Array({ maxLength: 40 })
const plain = (records: readonly Bytes[]) => records.map((bytes) => bytesToHex(bytes))
/** An append that a kill or a power loss cut short leaves these bytes after the last record. */
const TAILS = [
  [],
  [0xf1],
  [0xf1, 0x5b, 0x0a, 0xec, 0, 0, 0, 3, 1],
  [0, 0, 0, 0, 0],
  new Array(4_096).fill(0),
].map((bytes) => Uint8Array.from(bytes))

const skip = (path: string): Journal => openJournal(path, { ifDamaged: 'skip' })
const refuse = (path: string): Journal => openJournal(path, { ifDamaged: 'refuse' })

/** Makes records of different lengths, including an empty one. */
const someRecords = (count: number): readonly Bytes[] =>
  Array.from({ length: count }, (_, n) => new Uint8Array((n * 7) % 31).fill(n + 1))

function write(path: string, content: Uint8Array): void {
  for (const name of readdirSync(dirname(path))) rmSync(join(dirname(path), name))
  writeFileSync(path, content)
}
const beside = (path: string) =>
  readdirSync(dirname(path)).filter((name) => name !== basename(path))

/** Makes a file of the version without a checksum of the length. */
function oldJournal(records: readonly Bytes[]): Buffer {
  const parts = records.flatMap((one) => {
    const head = Buffer.alloc(12)
    head.writeUInt32BE(one.length)
    head.writeBigUInt64BE(checksum(one), 4)
    return [head, one]
  })
  return Buffer.concat([Buffer.from('flashnode journal 1\n', 'latin1'), ...parts])
}

describe('a journal', () => {
  test('gives back its records, whatever was torn off its end', () => {
    const directory = temporaryDirectory()
    let count = 0
    fc.assert(
      fc.property(
        fc.array(record, { maxLength: 6 }),
        fc.nat(60),
        fc.constantFrom(...TAILS),
        (records, cut, tail) => {
          const path = join(directory, `${count++}`)
          const journal = openJournal(path, { ifDamaged: 'skip' })
          const ends = [journal.sizeBytes()]
          for (const one of records) {
            journal.append(one)
            ends.push(journal.sizeBytes())
          }
          journal.close()
          expect(readFileSync(path)).toHaveLength(ends.at(-1)!)
          const retained = Math.max(ends[0]!, ends.at(-1)! - cut)
          truncateSync(path, retained)
          const full = ends.filter((end) => end <= retained).length - 1
          if (retained === ends[full]!) appendFileSync(path, tail)
          const reopened = openJournal(path, { ifDamaged: 'skip' })
          expect(plain(reopened.found)).toEqual(plain(records.slice(0, full)))
          expect(reopened.tornBytes).toBe(
            retained === ends[full]! ? tail.length : retained - ends[full]!,
          )
          reopened.append(Uint8Array.of(1, 2, 3))
          reopened.close()
          const last = openJournal(path, { ifDamaged: 'skip' })
          expect(plain(last.found)).toEqual([...plain(records.slice(0, full)), '0x010203'])
          last.close()
        },
      ),
      { numRuns: 60 },
    )
  })

  test('is full at its limit, and takes records again after a rewrite', () => {
    const path = join(temporaryDirectory(), 'journal')
    const journal = openJournal(path, { limitBytes: 250, ifDamaged: 'skip' })
    const one = new Uint8Array(40).fill(7)
    for (let i = 0; i < 3; i++) journal.append(one)
    const size = journal.sizeBytes()
    expect(() => journal.append(one)).toThrow('a record of 40 does not fit')
    expect(() => journal.rewrite([one, one, one, one])).toThrow('the limit is 250')
    expect(journal.sizeBytes()).toBe(size)
    journal.rewrite([one.fill(8)])
    journal.append(one.fill(9))
    journal.close()
    const reopened = openJournal(path, { limitBytes: 250, ifDamaged: 'skip' })
    expect(plain(reopened.found)).toEqual(
      [8, 9].map((byte) => bytesToHex(new Uint8Array(40).fill(byte))),
    )
    expect(existsSync(`${path}.next`)).toBe(false)
    reopened.close()
  })

  test('stays as it was when a rewrite fails', () => {
    const path = join(temporaryDirectory(), 'journal')
    const journal = openJournal(path, { ifDamaged: 'skip' })
    journal.append(Uint8Array.of(1))
    // A directory with the same name stands for any fault of the disk.
    mkdirSync(`${path}.next`)
    expect(() => journal.rewrite([])).toThrow(JournalError)
    journal.append(Uint8Array.of(2))
    journal.close()
    const reopened = openJournal(path, { ifDamaged: 'skip' })
    expect(plain(reopened.found)).toEqual(['0x01', '0x02'])
    reopened.close()
  })

  test('names its path when the disk refuses it', () => {
    const path = join(temporaryDirectory(), 'none', 'journal')
    const open = () => openJournal(path, { ifDamaged: 'skip' })
    expect(open).toThrow(JournalError)
    expect(open).toThrow(`${path}: ENOENT`)
  })

  test('is not opened when the file is something else', () => {
    const path = join(temporaryDirectory(), 'journal')
    writeFileSync(path, 'a letter to somebody else')
    expect(() => openJournal(path, { ifDamaged: 'skip' })).toThrow('is no journal of this program')
    expect(readFileSync(path, 'utf8')).toBe('a letter to somebody else')
  })
})

describe('a damaged journal', () => {
  const records = someRecords(12)
  const full = Buffer.concat(encodeJournal(records))
  /** Finds the record that contains the byte; undefined: the first line contains it. */
  const ownerOf = (content: Buffer, headBytes: number, byte: number) => {
    let end = content.indexOf('\n') + 1
    if (byte < end) return undefined
    return records.findIndex(({ length }) => {
      end += headBytes + length
      return byte < end
    })
  }

  for (const [version, content, headBytes] of [
    ['this version', full, 24],
    ['the first version', oldJournal(records), 12],
  ] as const)
    test(`of ${version} loses at most the record with a flipped bit`, () => {
      for (let bit = 0; bit < 8 * content.length; bit++) {
        const spoilt = Buffer.from(content)
        spoilt[bit >> 3]! ^= 1 << (bit & 7)
        const owner = ownerOf(content, headBytes, bit >> 3)
        const decoded = decodeJournal(spoilt)!
        const isTail = headBytes === 12 && owner === records.length - 1 && decoded.tornBytes > 0
        expect([bit, plain(decoded.records)]).toEqual([
          bit,
          plain(records.filter((_, index) => index !== owner)),
        ])
        // Without a checksum of the length, a record that reaches beyond the end looks like the
        // result of a kill.
        if (!isTail) expect([bit, decoded.damages.length]).toEqual([bit, 1])
      }
    })

  test('loses only the records with changed bytes', () => {
    fc.assert(
      fc.property(
        fc.nat(full.length - 1),
        fc.uint8Array({ minLength: 1, maxLength: 60 }),
        (from, bytes) => {
          const spoilt = Buffer.from(full)
          spoilt.set(bytes.subarray(0, full.length - from), from)
          const changed = new Set(
            [...spoilt.keys()]
              .filter((at) => spoilt[at] !== full[at])
              .map((at) => ownerOf(full, 24, at)),
          )
          const { records: found } = decodeJournal(spoilt)!
          const retained = records.filter((_, index) => !changed.has(index))
          expect(plain(found)).toEqual(plain(retained))
        },
      ),
      { numRuns: 2_000 },
    )
  })

  test('gives all but the damaged record, and the file is copied before', () => {
    const path = join(temporaryDirectory(), 'journal')
    fc.assert(
      fc.property(fc.nat(8 * full.length - 1), (bit) => {
        const spoilt = Buffer.from(full)
        spoilt[bit >> 3]! ^= 1 << (bit & 7)
        write(path, spoilt)
        const journal = skip(path)
        const owner = ownerOf(full, 24, bit >> 3)
        const retained = records.filter((_, index) => index !== owner)
        expect(plain(journal.found)).toEqual(plain(retained))
        expect(journal.damage?.copy).toBe(`${path}.damaged-1`)
        expect(journal.damage?.message).toContain(`kept as ${path}.damaged-1`)
        expect(readFileSync(journal.damage!.copy)).toEqual(spoilt)
        journal.append(Uint8Array.of(9))
        journal.close()
        const reopened = skip(path)
        expect(plain(reopened.found)).toEqual([...plain(retained), '0x09'])
        expect([reopened.damage, reopened.tornBytes]).toEqual([undefined, 0])
        reopened.close()
      }),
      { numRuns: 60 },
    )
  })

  test('is refused and left as it is when its records depend on each other', () => {
    const path = join(temporaryDirectory(), 'journal')
    for (let bit = 0; bit < 8 * full.length; bit += 11) {
      const spoilt = Buffer.from(full)
      spoilt[bit >> 3]! ^= 1 << (bit & 7)
      write(path, spoilt)
      expect(() => refuse(path)).toThrow(`${path} is damaged and was left as it is: record `)
      expect(readFileSync(path)).toEqual(spoilt)
      expect(beside(path)).toEqual([])
    }
    const spoilt = Buffer.from(full)
    spoilt[20 + 24 + 24 + 4]! ^= 1
    write(path, spoilt)
    const error = thrown(() => refuse(path))
    expect(error).toMatchObject({ reason: 'damaged' })
    expect(error.message).toContain('record 2 at byte 44 is not what its checksum says, 31 bytes.')
    expect(storageFailure(error)).toBe(`storage: ${error.message}`)
  })

  test('is cut before the damage on request, after a copy', () => {
    const path = join(temporaryDirectory(), 'journal')
    const spoilt = Buffer.from(full)
    spoilt[20 + 24 + 24 + 4]! ^= 1
    write(path, spoilt)
    const journal = openJournal(path, { ifDamaged: 'cut' })
    expect(plain(journal.found)).toEqual(plain(records.slice(0, 1)))
    expect(readFileSync(journal.damage!.copy)).toEqual(spoilt)
    journal.close()
  })

  test('includes one with foreign bytes at its end, which are copied', () => {
    const path = join(temporaryDirectory(), 'journal')
    for (const bytes of [[1], [0xf1, 1], [...new Array(50).keys()]]) {
      const spoilt = Buffer.concat([full, Uint8Array.from(bytes)])
      write(path, spoilt)
      expect(() => refuse(path)).toThrow(`at byte ${full.length}`)
      const journal = skip(path)
      expect(plain(journal.found)).toEqual(plain(records))
      expect(readFileSync(journal.damage!.copy)).toEqual(spoilt)
      journal.close()
    }
  })

  test('is copied a limited number of times, and then it is not opened', () => {
    const path = join(temporaryDirectory(), 'journal')
    const spoilt = Buffer.from(full)
    spoilt[50]! ^= 1
    writeFileSync(path, spoilt)
    for (let copy = 1; copy <= MAX_COPIES; copy++) {
      writeFileSync(path, spoilt)
      skip(path).close()
      expect(beside(path)).toHaveLength(copy)
    }
    writeFileSync(path, spoilt)
    expect(() => skip(path)).toThrow(`${MAX_COPIES} copies of it are kept already`)
    expect(readFileSync(path)).toEqual(spoilt)
  })

  test('gives no records from the bytes inside a damaged record', () => {
    const inner = Buffer.concat(encodeJournal(someRecords(5)))
    const content = Buffer.concat(encodeJournal([Uint8Array.of(1), inner, Uint8Array.of(2)]))
    const spoilt = Buffer.from(content)
    spoilt[20 + 25 + 6]! ^= 4
    expect(plain(decodeJournal(spoilt)!.records)).toEqual(['0x01', '0x02'])
  })

  test('is reported by a check, which changes nothing', () => {
    const path = join(temporaryDirectory(), 'journal')
    const spoilt = Buffer.from(full)
    spoilt[20 + 24 + 24 + 4]! ^= 1
    write(path, spoilt)
    const damages = [{ offset: 44, bytes: 31, recordsBefore: 1 }]
    expect(checkJournal(path)).toEqual({ records: records.length - 1, damages, tornBytes: 0 })
    expect([readFileSync(path), beside(path)]).toEqual([spoilt, []])
  })
})

describe('a journal that a kill cut short', () => {
  const records = someRecords(6)
  const full = Buffer.concat(encodeJournal(records))

  test('gives its complete records, and the rest is copied to a file beside it', () => {
    const path = join(temporaryDirectory(), 'journal')
    for (let length = 0; length < full.length; length++) {
      write(path, full.subarray(0, length))
      const journal = refuse(path)
      const retained = journal.found.length
      expect(plain(journal.found)).toEqual(plain(records.slice(0, retained)))
      expect(journal.damage).toBeUndefined()
      const { tornBytes } = journal
      expect(beside(path)).toEqual(tornBytes > 0 ? [basename(tornCopy(path))] : [])
      if (tornBytes > 0)
        expect(readFileSync(tornCopy(path))).toEqual(full.subarray(length - tornBytes, length))
      journal.close()
      expect(refuse(path).tornBytes).toBe(0)
    }
  })
})

describe('a journal of the first version', () => {
  const records = someRecords(6)
  test('gives all records and is converted to the present version', () => {
    const path = join(temporaryDirectory(), 'journal')
    writeFileSync(path, oldJournal(records))
    const journal = refuse(path)
    expect(plain(journal.found)).toEqual(plain(records))
    journal.append(Uint8Array.of(9))
    journal.close()
    const all = [...records, Uint8Array.of(9)]
    expect(readFileSync(path)).toEqual(Buffer.concat(encodeJournal(all)))
    expect(beside(path)).toEqual([])
  })
  test('is refused when a length in the middle was changed', () => {
    const path = join(temporaryDirectory(), 'journal')
    const spoilt = oldJournal(records)
    spoilt[20 + 12]! ^= 0x40
    writeFileSync(path, spoilt)
    expect(() => refuse(path)).toThrow('record 2 at byte 32')
    const journal = skip(path)
    expect(plain(journal.found)).toEqual(plain(records.filter((_, index) => index !== 1)))
    expect(readFileSync(journal.damage!.copy)).toEqual(spoilt)
    journal.close()
  })
})

function thrown(work: () => unknown): Error {
  try {
    work()
  } catch (error) {
    return error as Error
  }
  throw new Error('nothing was thrown')
}
