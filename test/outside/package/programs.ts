/** These programs import the package, and run in a folder where it is installed. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Check } from '../../kit/checks.ts'
import { isGone } from './command.ts'
import { environmentOf, run } from './install.ts'

const SEND = `const { from, to } = { from: node.accounts[0].address, to: node.accounts[1].address }
const sent = await node.request({ method: 'eth_sendTransaction', params: [{ from, to, value: '0x1' }] })
`

/** Each Node runs the same program, with the node in its process or in a child process. */
const ANY = `import assert from 'node:assert/strict'
import { createNode } from 'flashnode'
const listeners = () => process.eventNames().map((name) => [name, process.listenerCount(name)]).sort().join(' ')
const before = listeners()
const node = await createNode({ feed: 'scripted' })
const told = new Promise((resolve) => node.on('message', resolve))
await node.request({ method: 'eth_subscribe', params: ['newHeads'] })
${SEND}
const place = await node.feed.push()
const receipt = await node.request({ method: 'eth_getTransactionReceipt', params: [sent] })
assert.equal(Number(receipt.blockNumber), place.number)
assert.equal(await node.sealed.request({ method: 'eth_getTransactionReceipt', params: [sent] }), null)
await node.feed.reorg({ depth: 0 })
assert.equal(await node.request({ method: 'eth_getTransactionReceipt', params: [sent] }), null)
const head = await node.feed.seal()
assert.equal((await told).data.result.hash, head.hash)
const byPort = await fetch(node.flashblocksUrl, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}' })
assert.equal(Number((await byPort.json()).result), node.chainId)
await assert.rejects(node.request({ method: 'eth_none' }), { code: -32601 })
await node.close()
await assert.rejects(node.request({ method: 'eth_chainId' }), /the node is closed/)
await assert.rejects(createNode({ blockTimeMs: 1500 }), { message: 'flag --block-time-ms: "1500": expected a multiple of 1000, such as 2000, because timestamps are whole seconds' })
await assert.rejects(createNode({ blokTimeMs: 1000 }), { message: 'unknown flag --blok-time-ms; nearest: --block-time-ms' })
assert.equal(listeners(), before)
console.log('done')
`

const TWO = `import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
process.env.FLASHNODE_NONSENSE = 'of the environment nothing is read'
const { createNode } = await import('flashnode')
const datadir = mkdtempSync(join(tmpdir(), 'flashnode-kept-'))
const [one, two] = await Promise.all([createNode({ port: 'none', chainId: 7777 }), createNode({ datadir })])
assert.deepEqual([one.chainId, two.chainId, one.url], [7777, 196, undefined])
await assert.rejects(createNode({ datadir }), /lock|in use|another/i)
await assert.rejects(createNode({ port: Number(new URL(two.url).port) }), /is in use/)
assert.equal(Number(await one.request({ method: 'eth_chainId' })), 7777)
await one.close()
assert.equal(Number(await two.request({ method: 'eth_chainId' })), 196)
await two.close()
assert.ok(readdirSync(datadir).length > 0)
rmSync(datadir, { recursive: true })
assert.deepEqual(process.getActiveResourcesInfo().filter((one) => !/Pipe|TTY|FS/.test(one)), [])
console.log('done')
`

const LIBRARIES = `import assert from 'node:assert/strict'
import { BrowserProvider } from 'ethers'
import { createNode } from 'flashnode'
import { createPublicClient, custom } from 'viem'
const node = await createNode({ port: 'none' })
const provider = new BrowserProvider(node, undefined, { pollingInterval: 100 })
const signer = await provider.getSigner(0)
const sent = await signer.sendTransaction({ to: node.accounts[1].address, value: 1n })
assert.equal((await sent.wait()).status, 1)
assert.equal(await createPublicClient({ transport: custom(node) }).getChainId(), 196)
provider.destroy()
await node.close()
console.log('done')
`

const TYPED = `import { createNode, type Hex, type ListeningNode, type LocalNode, type FlashblockPosition } from 'flashnode'
const node: ListeningNode = await createNode({ blockTimeMs: 2_000, cors: ['*'], rateLimit: 'off', engine: 'fast' })
const quiet: LocalNode = await createNode({ port: 'none', feed: 'scripted', limitCallMs: 100 })
const place: FlashblockPosition = await quiet.feed.push(['0x00', { from: node.accounts[0]!.address }])
const hash: Hex = (await node.feed.seal()).hash
const block = await node.request<{ hash: Hex } | null>({ method: 'eth_getBlockByHash', params: [hash, false] })
// @ts-expect-error no such flag
await createNode({ blokTimeMs: 1 })
// @ts-expect-error a number
await createNode({ blockTimeMs: '1000' })
// @ts-expect-error it has no port
quiet.url
await using again = await createNode()
export const all = [node.url, place.index, block?.hash, again.feedUrl]
`

const PROGRAMS = { any: ANY, two: TWO, libraries: LIBRARIES } as const

export async function checkProgram(
  program: keyof typeof PROGRAMS,
  where: { readonly folder: string; readonly node: string; readonly name: string },
  check: Check,
): Promise<void> {
  const { folder, node, name } = where
  const file = join(folder, `${program}.mjs`)
  writeFileSync(file, PROGRAMS[program])
  const { status, out, err } = await run(node, [file], { cwd: folder })
  const isDone = status === 0 && out.trim() === 'done'
  check(`${name}: the program "${program}" ends by itself`, isDone, `${status} ${err.slice(-600)}`)
}

/** Checks that a node in a child process ends with a killed parent. */
export async function checkOrphan(
  { folder, node, name }: { readonly folder: string; readonly node: string; readonly name: string },
  check: Check,
): Promise<void> {
  const code = `const { createNode } = await import('flashnode'); console.log((await createNode()).url)`
  const parent = spawn(node, ['--input-type=module', '--eval', code], {
    cwd: folder,
    env: environmentOf(),
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [text] = (await once(parent.stdout.setEncoding('utf8'), 'data')) as [string]
  // The pipe closes when the last of the two processes ends.
  const closed = once(parent.stdout, 'close')
  parent.kill('SIGKILL')
  await closed
  let isDown = await isGone(text.trim())
  for (let tries = 0; !isDown && tries < 100; tries++) {
    await new Promise((done) => setTimeout(done, 100))
    isDown = await isGone(text.trim())
  }
  check(`${name}: the node ends when its parent is killed`, isDown)
}

/** The types must compile without any other types, even those of Node. */
const STRICT = {
  target: 'esnext',
  lib: ['esnext'],
  module: 'nodenext',
  types: [],
  noEmit: true,
  strict: true,
  exactOptionalPropertyTypes: true,
  skipLibCheck: false,
}

/** Compiles the declarations with the strictest options. */
export async function checkTypes(folder: string, check: Check): Promise<void> {
  writeFileSync(join(folder, 'typed.ts'), TYPED)
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions: STRICT }))
  const { status, out } = await run(resolve('node_modules/.bin/tsc'), [], { cwd: folder })
  check(
    "strict TypeScript compiles a program with the package's types",
    status === 0,
    out.slice(0, 800),
  )
}
