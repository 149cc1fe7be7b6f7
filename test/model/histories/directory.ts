/**
 * A data directory that histories share one after another. It is emptied between them, and reopened
 * when a history asks for that.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { concatBytes } from '../../../engine/primitives/words.ts'
import { COLUMN_NAMES, type ColumnName } from '../../../engine/storage/database/columns.ts'
import type { Database } from '../../../engine/storage/database/types.ts'
import { openSmall } from '../../fixtures/databases-open.ts'
import { dyingDatabase } from '../../fixtures/dying-database.ts'
import { ADDRESSES, SLOTS } from '../../fixtures/view-blocks.ts'

/**
 * A new directory replaces an old one, because deleted rows leave traces that slow down later
 * reads.
 */
const HISTORIES_IN_DIRECTORY = 200

export class Directory {
  /** TMPDIR chooses the file system; memory is the fastest. */
  #path = ''
  #database: Database | undefined
  #used = 0
  /**
   * The process "dies" in the middle of its work after this many commits; undefined: it does not.
   */
  fuse: number | undefined

  /** The database as the process sees it. */
  get database(): Database {
    return dyingDatabase(this.#database!, () => {
      if (this.fuse === undefined || this.fuse-- > 0) return
      this.fuse = undefined
      throw new Died()
    })
  }

  /** Deletes all rows, or makes a new directory. */
  async empty(): Promise<void> {
    this.fuse = undefined
    if (this.#database !== undefined && this.#used++ < HISTORIES_IN_DIRECTORY) {
      emptyColumns(this.#database)
      return
    }
    await this.remove()
    this.#used = 1
    this.#path = mkdtempSync(join(tmpdir(), 'flashnode-histories-'))
    this.#database = await openSmall(join(this.#path, 'state'))
  }

  async reopen(): Promise<void> {
    await this.#database!.close()
    this.#database = await openSmall(join(this.#path, 'state'))
  }

  async remove(): Promise<void> {
    await this.#database?.close()
    this.#database = undefined
    if (this.#path !== '') rmSync(this.#path, { recursive: true, force: true })
  }
}

/** The process ended between two commits. */
export class Died extends Error {
  override name = 'Died'
}

function emptyColumns(database: Database): void {
  const batch = database.batch()
  const empty = (column: ColumnName, prefix: Bytes) => {
    const lt = new Uint8Array(80).fill(0xff)
    lt.set(prefix)
    for (const { key } of database.scan(column, { gte: prefix, lt })) batch.delete(column, key)
  }
  // A scan of history stays inside one key.
  for (const column of COLUMN_NAMES)
    if (column === 'accountHistory') for (const address of ADDRESSES) empty(column, address)
    else if (column === 'slotHistory') for (const key of slotKeys()) empty(column, key)
    else empty(column, new Uint8Array(0))
  batch.commit()
}

const slotKeys = () =>
  ADDRESSES.flatMap((address) => SLOTS.map((slot) => concatBytes(address, slot)))
