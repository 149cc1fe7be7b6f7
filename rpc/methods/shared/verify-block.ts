/** Internal pool method that executes a canonical block on both engines; clients cannot call it. */
import type { Block } from '../../../engine/chain/types.ts'
import type { Engine } from '../../../engine/evm/engine.ts'
import { attributesOfHeader, openBlock } from '../../../engine/execution/block/block.ts'
import type { BlockExecution, BlockSums } from '../../../engine/execution/transaction/types.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import type { StateDiff } from '../../../engine/state/diff.ts'
import { textResult } from '../../json/results.ts'
import type { PlainCodec } from '../../json/schema.ts'
import { type Method, type PoolContext, param, poolMethod } from '../../method/method.ts'

export type BlockVerdict =
  | { readonly verdict: 'same' }
  /** The block is too large, took too long, or no longer exists. */
  | { readonly verdict: 'unknown' }
  | {
      readonly verdict: 'different'
      readonly hash: string
      readonly engine: string
      /** Name of the first difference, with the values of both engines. */
      readonly what: string
      readonly theirs: string
      readonly ours: string
    }

const MAX_GAS = 20_000_000n
const MAX_MS = 2_000

export const VERIFY_BLOCK = { name: 'verifyBlock', runs: 'trace' } as const

/**
 * Creates the method.
 * @param other creates the other engine on first use
 */
export function verifyBlockMethod(other: () => Engine): Method {
  return poolMethod({
    ...VERIFY_BLOCK,
    summary: 'Whether the other engine computes the same block.',
    params: [param('Number', height)],
    result: textResult('Verdict', { type: 'object' }),
    async handler(context, number) {
      return JSON.stringify(await verdictOf(context, number, other()))
    },
  })
}

const height: PlainCodec<bigint> = {
  // Only the node calls it, so there is no check.
  decode: (wire) => BigInt(wire as number),
  encode: (value) => Number(value),
  schema: { type: 'integer' },
}

async function verdictOf(
  context: PoolContext,
  number: bigint,
  other: Engine,
): Promise<BlockVerdict> {
  const { view, chain, engine } = context
  const block = view.block({ number })
  const isLeftOut =
    block === undefined ||
    number <= chain.genesisNumber ||
    block.header.gasUsed > MAX_GAS ||
    // This method does not run the steps after the transactions of an Ethereum block.
    !chain.rulesAt(number, block.header.timestamp).isOptimism
  if (isLeftOut) return { verdict: 'unknown' }
  const end = context.now() + MAX_MS
  const isExpired = () => context.now() >= end || context.isExpired()
  const [theirs, ours] = [
    await executed({ ...context, engine: other, isExpired }, block),
    await executed({ ...context, engine, isExpired }, block),
  ]
  if (theirs === undefined || ours === undefined) return { verdict: 'unknown' }
  const said = { ...ours, ...textOf(block.header) }
  const what = Object.keys(theirs).find((name) => theirs[name] !== said[name])
  if (what === undefined) return { verdict: 'same' }
  return {
    verdict: 'different',
    hash: bytesToHex(block.hash),
    engine: other.name,
    what,
    theirs: theirs[what]!,
    ours: said[what]!,
  }
}

type Made = Readonly<Record<string, string>>

/**
 * Executes a block; undefined without its parent or enough time.
 * @throws {ViewError}
 */
async function executed(
  { view, chain, engine, isExpired }: PoolContext,
  { header, transactions }: Pick<Block, 'header' | 'transactions'>,
): Promise<Made | undefined> {
  const parent = view.block({ hash: header.parentHash, requireCanonical: false })
  if (parent === undefined) return undefined
  const all = transactions()
  const attributes = attributesOfHeader(header, all.at(-1)?.raw)
  const open = openBlock({ engine, chain, reader: view.state(parent), attributes })
  try {
    await open.start()
    for (const transaction of all) {
      const { status } = await open.execute(transaction, { isExpired })
      if (status === 'stopped') return undefined
      if (status === 'invalid') return { invalid: bytesToHex(transaction.hash) }
    }
    return await madeOf(open)
  } finally {
    open.close()
  }
}

const madeOf = async (open: BlockExecution): Promise<Made> => ({
  ...textOf(open.sums()),
  state: diffText(await open.diff()),
})

const textOf = ({
  gasUsed,
  receiptsRoot,
  logsBloom,
}: Pick<BlockSums, 'gasUsed' | 'receiptsRoot' | 'logsBloom'>): Made => ({
  gasUsed: `${gasUsed}`,
  receiptsRoot: bytesToHex(receiptsRoot),
  logsBloom: bytesToHex(logsBloom),
})

/** The text is independent of the order in which an engine reports changes. */
function diffText(diff: StateDiff): string {
  const lines = diff.flatMap(({ address, after, slots, code }) => {
    const name = bytesToHex(address)
    const account =
      after === undefined
        ? 'none'
        : `${after.nonce} ${after.balance} ${bytesToHex(after.codeHash)} ${code?.length ?? ''}`
    return [
      `${name} ${account}`,
      ...slots.map(({ key, after: value }) => `${name} ${bytesToHex(key)} ${bytesToHex(value)}`),
    ]
  })
  return lines.toSorted((a, b) => (a < b ? -1 : 1)).join('\n')
}
