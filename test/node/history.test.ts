/**
 * A chain is imported with little state history. Old state must be refused with the retained range;
 * all blocks and logs must be available.
 */
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { conformance, isAbsent } from '../fixtures/blocks.ts'
import { temporaryDirectory } from '../fixtures/databases.ts'
import { call, runToEnd, startNode } from '../kit/node.ts'

const CHAIN = 'chain-facts/ethtest-chain'
const RETAINED = 256
const HEAD = 600

type Log = { readonly address: string; readonly topics: readonly string[] }
const hex = (number: number) => `0x${number.toString(16)}`

test.skipIf(isAbsent(`${CHAIN}/chain.rlp`))(
  'a node refuses state before the newest 256 blocks, but has all receipts and logs',
  async () => {
    const datadir = join(temporaryDirectory(), 'data')
    const [genesis, chain] = ['genesis.json', 'chain.rlp'].map((file) =>
      conformance(`${CHAIN}/${file}`),
    ) as [string, string]
    const files = ['--genesis', genesis, '--chain', chain, '--datadir', datadir]
    await runToEnd(['import', ...files, '--history-blocks', `${RETAINED}`])
    const flags = ['--datadir', datadir, '--rate-limit', 'off', '--trace-mode-optional']
    const node = await startNode(flags, 'serve')
    const request = (method: string, ...params: readonly unknown[]) =>
      call(node.url, method, params)

    const oldest = HEAD - RETAINED
    const about = { to: `0x${'00'.repeat(20)}` }
    const reads: readonly (readonly [method: string, ...before: readonly unknown[]])[] = [
      ['eth_getBalance', about.to],
      ['eth_getTransactionCount', about.to],
      ['eth_getStorageAt', about.to, '0x0'],
      ['eth_call', about],
      ['eth_estimateGas', about],
      ['eth_createAccessList', about],
    ]
    for (const [method, ...before] of reads) {
      await request(method, ...before, hex(oldest))
      await expect(request(method, ...before, hex(oldest - 1)), method).rejects.toThrow(
        `the oldest available block is ${oldest}`,
      )
    }
    // A trace starts with the state of the parent.
    await request('debug_traceBlockByNumber', hex(oldest + 1))
    await expect(request('debug_traceBlockByNumber', hex(oldest))).rejects.toThrow(
      `the oldest available block is ${oldest}`,
    )

    const logs: Log[] = []
    for (let number = 1; number <= HEAD; number++) {
      const receipts = (await request('eth_getBlockReceipts', hex(number))) as { logs: Log[] }[]
      logs.push(...receipts.flatMap((receipt) => receipt.logs))
    }
    expect(logs.length).toBeGreaterThan(100)
    const all = { fromBlock: '0x0', toBlock: 'latest' }
    expect(await request('eth_getLogs', all)).toEqual(logs)
    for (const address of new Set(logs.map((log) => log.address)))
      expect(await request('eth_getLogs', { ...all, address })).toEqual(
        logs.filter((log) => log.address === address),
      )
    for (const position of [0, 1]) {
      const values = [
        ...new Set(logs.flatMap(({ topics }) => topics.slice(position, position + 1))),
      ]
      const some = [values.slice(0, 1), values.slice(1, 4)].filter(({ length }) => length > 0)
      for (const wanted of some) {
        const topics = [...Array.from({ length: position }, () => null), wanted]
        expect(await request('eth_getLogs', { ...all, topics })).toEqual(
          logs.filter((log) => wanted.includes(log.topics[position] ?? '')),
        )
      }
    }
    expect(await node.stop('SIGTERM')).toBe(0)
  },
  240_000,
)
