/** Some calls run again on another engine, and differences are reported. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { OWN_CLIENT, type PoolCall, type PoolReply } from '../../../rpc/core/executor.ts'
import { DEFAULT_LIMITS } from '../../../rpc/core/limits.ts'
import { methods } from '../../../rpc/methods/index.ts'
import { createVerifier, mismatchFiles } from '../../../workers/front/verifier.ts'

const directory = mkdtempSync(join(tmpdir(), 'flashnode-verify-'))
afterAll(() => rmSync(directory, { recursive: true }))

const callOf = (name: string): PoolCall => ({
  method: methods.get(name)!,
  params: [],
  text: '[{"to":"0xaa"},"latest"]',
  endpoint: 'flashblocks',
  snapshot: undefined,
  deadline: 1_000,
  client: OWN_CLIENT,
})

function verifierOn(verdict: object, options: { readonly share?: number } = {}) {
  const request: PoolCall[] = []
  const reported: unknown[] = []
  const haltReasons: string[] = []
  const verifier = createVerifier({
    executor: {
      async execute(call): Promise<PoolReply> {
        request.push(call)
        if (call.method.name.startsWith('verify')) return { result: JSON.stringify(verdict) }
        return { result: '"0x01"', snapshot: 7 }
      },
    },
    limits: DEFAULT_LIMITS,
    now: () => 0,
    share: options.share ?? 0.5,
    random: () => 0.25,
    report: (what, details) => void reported.push([what, details]),
    save: mismatchFiles(directory),
    haltWriter: (reason) => void haltReasons.push(reason),
  })
  const settled = () => new Promise((resolve) => setImmediate(resolve))
  return { requested: request, reported, haltReasons, verifier, settled }
}

test('a call runs again at its snapshot after its response, and is counted', async () => {
  const { requested: request, verifier, settled, reported } = verifierOn({ verdict: 'same' })
  expect(await verifier.execute(callOf('eth_call'))).toEqual({ result: '"0x01"', snapshot: 7 })
  await settled()
  expect(request.map(({ method }) => method.name)).toEqual(['eth_call', 'verifyCall'])
  expect(request[1]).toMatchObject({ snapshot: 7, endpoint: 'flashblocks' })
  expect(JSON.parse(request[1]!.text)).toEqual([
    { method: 'eth_call', params: [{ to: '0xaa' }, 'latest'], answer: { result: '"0x01"' } },
  ])
  expect(verifier.counts()).toEqual({ verified: 1, verifiedBlocks: 0, mismatches: 0 })
  expect(reported).toEqual([])
})

test('a reused response is verified at the snapshot that reuses it', async () => {
  const { requested: request, verifier, settled } = verifierOn({ verdict: 'same' })
  const given = { ...callOf('eth_call'), snapshot: 9 }
  verifier.carried!(given, { result: '"0x01"', snapshot: 7 })
  await settled()
  expect(request.map(({ method, snapshot }) => [method.name, snapshot])).toEqual([
    ['verifyCall', 9],
  ])
  expect(verifier.counts()).toEqual({ verified: 1, verifiedBlocks: 0, mismatches: 0 })
})

test('the recorded reads of a call are not part of its compared response', async () => {
  const { requested: request, verifier, settled } = verifierOn({ verdict: 'same' })
  const reads = { keys: Int32Array.of(1), fields: 1 }
  verifier.carried!({ ...callOf('eth_call'), snapshot: 9 }, { result: '"0x01"', reads })
  await settled()
  expect(JSON.parse(request[0]!.text)[0].answer).toEqual({ result: '"0x01"' })
})

test.each([
  ['eth_getBalance', 0.5],
  ['debug_traceCall', 0.5],
  ['eth_call', 0.25],
  ['eth_call', 0],
])('%s at a share of %d is not verified', async (method, share) => {
  const { requested: request, verifier, settled } = verifierOn({ verdict: 'same' }, { share })
  await verifier.execute(callOf(method))
  await settled()
  expect(request).toHaveLength(1)
})

test('different responses are written to files, up to 16', async () => {
  const other = { engine: 'reference', answer: { result: '"0x02"' } }
  const { verifier, settled, reported } = verifierOn({ verdict: 'different', ...other })
  for (let count = 0; count < 20; count++) {
    await verifier.execute(callOf('eth_call'))
    await settled()
  }
  expect(verifier.counts()).toEqual({ verified: 20, verifiedBlocks: 0, mismatches: 20 })
  expect(readdirSync(join(directory, 'mismatches'))).toHaveLength(16)
  const file = join(directory, 'mismatches', '1.json')
  expect(reported[0]).toEqual(['engines_differ', { method: 'eth_call', file, reason: file }])
  expect(reported[19]).toEqual([
    'engines_differ',
    { method: 'eth_call', file: undefined, reason: 'no file is written' },
  ])
  expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual({
    method: 'eth_call',
    params: [{ to: '0xaa' }, 'latest'],
    endpoint: 'flashblocks',
    answer: { result: '"0x01"' },
    other,
  })
})

test('a block that differs halts the node', async () => {
  const verdict = { verdict: 'different', engine: 'reference', what: 'gasUsed' }
  const { requested: request, verifier, settled, reported, haltReasons } = verifierOn(verdict)
  verifier.block(5)
  await settled()
  expect(request).toMatchObject([{ method: { name: 'verifyBlock' }, text: '[5]' }])
  expect(verifier.counts()).toEqual({ verified: 0, verifiedBlocks: 1, mismatches: 1 })
  const reason = 'block 5 has a different gasUsed on the reference engine'
  expect(reported).toMatchObject([['engines_differ', { number: 5, reason }]])
  expect(haltReasons).toEqual([reason])
})

test('a block that is equal or has no verdict changes nothing', async () => {
  for (const verdict of ['same', 'unknown']) {
    const { verifier, settled, haltReasons } = verifierOn({ verdict })
    verifier.block(5)
    await settled()
    expect(verifier.counts().verifiedBlocks).toBe(verdict === 'same' ? 1 : 0)
    expect(haltReasons).toEqual([])
  }
})
