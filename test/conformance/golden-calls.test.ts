/**
 * Calls and estimates that need no state, compared with the responses of geth 1.17.5
 * (CONFORMANCE_DIR, golden).
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { rulesOf } from '../../engine/chainspec/rules.ts'
import type { ChainSpec } from '../../engine/chainspec/types.ts'
import type { Engine } from '../../engine/evm/engine.ts'
import { type CallOptions, type CallRequest, call } from '../../engine/execution/call/call.ts'
import { estimateGas } from '../../engine/execution/call/estimate.ts'
import type { AccountOverride } from '../../engine/execution/call/overrides.ts'
import { bytesToHex, hexToBytes, quantity } from '../../engine/primitives/hex.ts'
import { failed } from '../../rpc/core/errors.ts'
import { describeEngines } from '../fixtures/engines.ts'
import { ETHEREUM } from '../fixtures/op-block.ts'
import { BLOCK, world } from '../fixtures/world.ts'

const golden = join(process.env['CONFORMANCE_DIR'] ?? '../shared/conformance', 'golden/ethtest')
const chain = {
  chainId: 3503995874084926n,
  rulesAt: rulesOf({
    chainId: 3503995874084926n,
    schedule: ETHEREUM,
    elasticity: 2n,
    denominator: 8n,
  }),
} as ChainSpec

/** Cases with these names read the recorded chain. */
const READS_STATE =
  /BALANCE|EXTCODE|BLOCKHASH|NUMBER|TIMESTAMP|PREVRANDAO|GASLIMIT|call to contract|staticcall|COINBASE|BASEFEE/

type Case = {
  readonly name: string
  readonly method: string
  readonly params: readonly unknown[]
  readonly response: unknown
}

function cases(method: string): Case[] {
  const folder = join(golden, method)
  if (!existsSync(folder)) return []
  return readdirSync(folder).flatMap((file) => {
    const lines = readFileSync(join(folder, file), 'utf8').split('\n')
    const comment = lines.find((line) => line.startsWith('//')) ?? ''
    const { params } = JSON.parse(lines.find((line) => line.startsWith('>> '))!.slice(3))
    const { result, error } = JSON.parse(lines.find((line) => line.startsWith('<< '))!.slice(3))
    const [request, at, overrides] = params
    const needsNothing = request.to === undefined || overrides?.[request.to]?.code !== undefined
    const isLocal = at === 'latest' && needsNothing && !READS_STATE.test(comment)
    return isLocal && error?.code !== -32602
      ? [{ name: `${comment} ${file}`, method, params, response: result ?? error }]
      : []
  })
}

type Wire = Readonly<Record<string, string>>
const requestOf = (wire: Wire): CallRequest => ({
  ...(wire['from'] === undefined ? {} : { from: hexToBytes(wire['from']) }),
  ...(wire['to'] === undefined ? {} : { to: hexToBytes(wire['to']) }),
  ...(wire['gas'] === undefined ? {} : { gas: BigInt(wire['gas']) }),
  ...(wire['value'] === undefined ? {} : { value: BigInt(wire['value']) }),
  input: hexToBytes(wire['input'] ?? wire['data'] ?? '0x'),
})
const overridesOf = (wire: Record<string, Wire> = {}): AccountOverride[] =>
  Object.entries(wire).map(([address, { balance, code }]) => ({
    address: hexToBytes(address),
    ...(balance === undefined ? {} : { balance: BigInt(balance) }),
    ...(code === undefined ? {} : { code: hexToBytes(code) }),
  }))

async function respond({ method, params }: Case, engine: Engine): Promise<unknown> {
  const [request, , overrides] = params as [Wire, string, Record<string, Wire> | undefined]
  const options: CallOptions = {
    engine,
    chain,
    env: { ...BLOCK, gasLimit: 100_000_000n },
    reader: world({}),
    request: requestOf(request),
    gasCap: 50_000_000n,
    limits: {},
    stateOverrides: overridesOf(overrides),
  }
  const result = await (method === 'eth_call' ? call(options) : estimateGas(options))
  if ('gas' in result) return quantity(result.gas)
  if (result.status === 'success') return bytesToHex(result.output)
  if (result.status === 'refused') return failed(result.message).toObject()
  if (result.status !== 'revert') return result
  const { reason, output } = result
  const message = reason === undefined ? 'execution reverted' : `execution reverted: ${reason}`
  return { code: 3, message, data: bytesToHex(output) }
}

const all = [...cases('eth_call'), ...cases('eth_estimateGas')]
describeEngines((engine) => {
  describe.skipIf(all.length === 0)(`a request that geth recorded in ${golden}`, () => {
    test.each(all.map((each) => [each.name, each] as const))(
      'has the response of geth: %s',
      async (_, each) => {
        expect(await respond(each, engine)).toEqual(each.response)
      },
    )
  })
})
if (all.length === 0)
  test('the tests of recorded responses need CONFORMANCE_DIR', ({ skip }) => skip())
