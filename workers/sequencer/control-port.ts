/**
 * Queue of controls for the sequencer, with access to the chain and other threads for carrying them
 * out.
 */

import { randomBytes } from 'node:crypto'
import type { MessagePort } from 'node:worker_threads'
import type { Block, ChainReader } from '../../engine/chain/types.ts'
import { readNewest } from '../../engine/chain/view-reads.ts'
import { isSigned } from '../../engine/primitives/transaction.ts'
import type {
  ControlledBlock,
  ControlPort,
  ControlRequest,
} from '../../engine/sources/sequencer/controls.ts'
import type { StoreReader } from '../../engine/storage/types.ts'
import type { FromSequencer, SequencerToWriter } from '../thread/messages.ts'

export function controlPort(options: {
  readonly reader: ChainReader
  readonly store: StoreReader
  readonly writer: MessagePort
  readonly notify: (message: FromSequencer) => void
}): { readonly port: ControlPort; push(request: ControlRequest): void } {
  const { reader, store, writer, notify } = options
  const waiting: ControlRequest[] = []
  const port: ControlPort = {
    next: () => waiting.shift(),
    done: (response) => notify({ type: 'controlled', response }),
    rewind: (to) => writer.postMessage({ type: 'rewind', to } satisfies SequencerToWriter),
    isFlat: () =>
      readNewest(reader, 'flashblocks', ({ pending, latest }) => pending.number === latest.number),
    pin: (number) => writer.postMessage({ type: 'pin', number } satisfies SequencerToWriter),
    blocksFrom: (number) => blocksFrom(reader, number),
    finalized: () =>
      readNewest(reader, 'standard', (view) =>
        Number(view.block({ tag: 'finalized' })?.number ?? view.canonical.number),
      ),
    isUnfoldable: (number) => store.canUnwindTo(number),
    salt: () => randomBytes(8),
  }
  return { port, push: (request) => void waiting.push(request) }
}

/** Returns the blocks from this number on; empty if one of them is missing. */
const blocksFrom = (reader: ChainReader, number: number): readonly ControlledBlock[] =>
  readNewest(reader, 'standard', (view) => {
    const blocks: ControlledBlock[] = []
    for (let at = BigInt(number); at <= view.canonical.number; at++) {
      const block = view.block({ number: at })
      if (block === undefined) return []
      blocks.push(controlled(block))
    }
    return blocks
  })

const controlled = (block: Block): ControlledBlock => ({
  number: Number(block.number),
  hash: block.hash.slice(),
  transactions: block
    .transactions()
    .filter(isSigned)
    .map(({ hash }) => hash.slice()),
})
