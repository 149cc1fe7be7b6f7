/** A node is started like by a user: the tests check its output, its end, and its refusals. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { methods } from '../../rpc/methods/index.ts'
import { openSocket } from '../fixtures/sockets.ts'
import { call, startNode } from '../kit/node.ts'

const directory = mkdtempSync(join(tmpdir(), 'flashnode-node-'))
/** Processes of this file create their temporary directories here. */
beforeAll(() => void vi.stubEnv('TMPDIR', directory))
const temporary = () => readdirSync(directory).filter((name) => /^flashnode-\w+$/.test(name))
afterAll(() => {
  vi.unstubAllEnvs()
  rmSync(directory, { recursive: true })
})

/** Runs a command line to its end. */
const run = (...argv: string[]) => runProgram([process.execPath, 'workers/main.ts', ...argv])
async function runProgram([program, ...argv]: string[]) {
  const child = spawn(program!, argv, { stdio: ['ignore', 'pipe', 'pipe'] })
  let [out, errors] = ['', '']
  child.stdout.on('data', (chunk) => {
    out += chunk
  })
  child.stderr.on('data', (chunk) => {
    errors += chunk
  })
  const [code] = await once(child, 'close')
  return { code, out, errors }
}
const quiet = ['--port', '0', '--admin-port', '0', '--log-level', 'silent']

describe('a development node', () => {
  test('is ready, responds, ends cleanly, and starts again at its head', async () => {
    const datadir = join(directory, 'data')
    const node = await startNode(['--datadir', datadir])
    expect(node.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
    // Block 1 is made at once, before anybody can see that its time is over.
    const pending = await call(`${node.url}/flashblocks`, 'eth_getBlockByNumber', [
      'pending',
      false,
    ])
    expect(Number((pending as { readonly number: string }).number)).toBeGreaterThanOrEqual(1)
    expect(node.head).toBeLessThanOrEqual(1)
    expect((await fetch(`${node.url}/readyz`)).status).toBe(200)
    expect(await call(node.url, 'eth_chainId')).toBe('0xc4')
    const socket = await openSocket(`${node.url.replace('http', 'ws')}/flashblocks`)
    const subscribe = { jsonrpc: '2.0', id: 1, method: 'eth_subscribe', params: ['newHeads'] }
    socket.send(JSON.stringify(subscribe))
    await socket.next()
    const head = JSON.parse(await socket.next()).params.result
    const locked = await run('dev', '--datadir', datadir, ...quiet)
    expect(locked).toEqual({
      code: 1,
      out: '',
      errors: `flashnode: ${datadir} is open in another process (pid ${node.pid}): stop that flashnode, or give --datadir another directory\n`,
    })
    expect(await node.stop('SIGTERM')).toBe(0)
    expect((await socket.closed).code).toBe(1001)

    const restarted = await startNode(['--datadir', datadir])
    expect(restarted.head).toBeGreaterThanOrEqual(Number(head.number))
    const block = await call(restarted.url, 'eth_getBlockByNumber', [head.number, false])
    expect(block).toMatchObject({ hash: head.hash })
    expect(await restarted.stop('SIGINT')).toBe(0)
  })

  test('sends a plain JSON feed, and handles each method without parameters', async () => {
    const node = await startNode(['--ephemeral', '--rate-limit', 'off', '--feed-form', 'plain'])
    const socket = await openSocket(`${node.url.replace('http', 'ws')}/feed`)
    const message = JSON.parse(await socket.next())
    expect(message.payload_id).toMatch(/^0x[0-9a-f]{16}$/)
    while (Number(await call(node.url, 'eth_blockNumber')) === 0) await socket.next()
    const failed: string[] = []
    for (const method of methods.keys())
      await call(`${node.url}/`, method).catch((error: Error) => {
        if (error.message.includes('-32603')) failed.push(error.message)
      })
    expect(failed).toEqual([])
    expect(await call(node.url, 'eth_config')).toMatchObject({ current: { chainId: '0xc4' } })
    expect(await node.stop('SIGTERM')).toBe(0)
  })

  test('starts although its first request to the pool times out', async () => {
    const find = 'const reply = await pool.execute({'
    const isFirst = `(globalThis.probes = (globalThis.probes ?? 0) + 1) === 1`
    const replace = `if (${isFirst}) throw new Error('request timed out')\n  ${find}`
    const node = await startNode(['--ephemeral'], 'dev', [
      { file: 'workers/pool/probe.ts', find, replace },
    ])
    expect((await fetch(`${node.url}/readyz`)).status).toBe(200)
    expect(await node.stop('SIGTERM')).toBe(0)
  })

  test('ends immediately at the second signal', async () => {
    const node = await startNode(['--ephemeral'])
    const ended = once(node.child, 'exit')
    expect(temporary().length).toBe(1)
    node.child.kill('SIGTERM')
    node.child.kill('SIGINT')
    // The code is 128 plus the number of the signal that came second.
    expect([
      [130, null],
      [143, null],
    ]).toContainEqual(await ended)
    expect(temporary()).toEqual([])
  })
})

describe('a command that cannot start', () => {
  const foreign = join(directory, 'foreign')
  const file = join(directory, 'file')
  const cases: [name: string, argv: string[], code: number, line: string | RegExp][] = [
    ['unknown flag', ['dev', '--prot'], 2, 'unknown flag --prot; nearest: --port'],
    [
      'foreign directory',
      ['dev', ...quiet, '--datadir', foreign],
      1,
      `${foreign} is no data directory of flashnode (it holds "notes"): give --datadir an empty or another directory`,
    ],
    [
      'a directory without a chain',
      ['serve', ...quiet, '--datadir', join(directory, 'none')],
      1,
      /has no chain/,
    ],
    [
      'an unknown chain',
      ['dev', ...quiet, '--ephemeral', '--chain', 'nope'],
      1,
      /^nope is neither/,
    ],
    [
      'too little memory',
      ['dev', ...quiet, '--ephemeral', '--view-memory', '1'],
      1,
      /^--view-memory 1 is too small: .* at least \d+ MB$/,
    ],
    [
      'an address of another machine',
      ['dev', ...quiet, '--ephemeral', '--host', '203.0.113.1', '--allow-insecure-unlock'],
      1,
      '203.0.113.1 is not an address of this machine: give another --host',
    ],
    ['public host', ['dev', ...quiet, '--host', '0.0.0.0'], 2, /^dev on the public --host 0\.0/],
    ...(['dev', 'serve'] as const).map((command): (typeof cases)[number] => [
      `${command} on a file`,
      [command, ...quiet, '--datadir', file],
      1,
      `${file} cannot be used: ENOTDIR: not a directory, scandir '${file}'; give another --datadir`,
    ]),
    [
      'migrate on a file',
      ['migrate', '--datadir', file],
      1,
      /^\S+ cannot be used: ENOTDIR: .*dir$/,
    ],
    [
      'a data directory inside a file',
      ['dev', ...quiet, '--datadir', join(file, 'x')],
      1,
      /^\S+\/x cannot be used: ENOTDIR: .*; give another --datadir$/,
    ],
    [
      'a data directory that cannot be created',
      ['dev', ...quiet, '--datadir', '/proc/none'],
      1,
      /^\/proc\/none cannot be used: ENOENT: .*; give another --datadir$/,
    ],
    [
      'a data directory with a name that is too long',
      ['dev', ...quiet, '--datadir', join(directory, 'x'.repeat(300))],
      1,
      /^\S+ cannot be used: ENAMETOOLONG: .*; give another --datadir$/,
    ],
    [
      'an allocation that is a directory',
      ['dev', ...quiet, '--ephemeral', '--genesis-alloc', foreign],
      1,
      `${foreign} cannot be read: EISDIR: illegal operation on a directory, read`,
    ],
    [
      'an allocation that is not JSON',
      ['dev', ...quiet, '--ephemeral', '--genesis-alloc', file],
      1,
      /^\S+\/file is not JSON: /,
    ],
    [
      'a configuration that is a directory',
      ['dev', ...quiet, '--config', foreign],
      2,
      /^configuration file \S+: EISDIR/,
    ],
  ]
  test.each(cases)('ends with one line that gives the reason: %s', async (_, argv, code, line) => {
    mkdirSync(foreign, { recursive: true })
    writeFileSync(join(foreign, 'notes'), '')
    writeFileSync(file, 'notes\n')
    const ended = await run(...argv)
    expect(ended.code).toBe(code)
    expect(ended.out).toBe('')
    const text = ended.errors.replace(/^flashnode: /, '').trimEnd()
    expect(text).not.toContain('\n')
    if (typeof line === 'string') expect(text).toBe(line)
    else expect(text).toMatch(line)
    expect(temporary()).toEqual([])
  })

  const commands: [name: string, rest: string][] = [
    ['dev', `${quiet.join(' ')} --ephemeral`],
    ['import', '--genesis none --chain none --datadir none'],
    ['import-state', '--chain none --state none --block none --datadir none'],
    ['migrate', '--datadir none'],
  ]
  test.each(commands)('ends with one line if it may open too few files: %s', async (name, rest) => {
    const command = `ulimit -n 64; exec ${process.execPath} workers/main.ts ${name} ${rest}`
    const ended = await runProgram(['bash', '-c', command])
    expect(ended).toEqual({
      code: 1,
      out: '',
      errors: expect.stringMatching(
        /^flashnode: only 64 files may be open at once, flashnode needs at least \d+: allow this process more open files \(ulimit -n 4096\)\n$/,
      ),
    })
  })

  test('ends with one line if it cannot make a temporary directory', async () => {
    const start = `TMPDIR=${file} exec ${process.execPath} workers/main.ts dev --ephemeral`
    const ended = await runProgram(['bash', '-c', `${start} ${quiet.join(' ')}`])
    expect(ended).toEqual({
      code: 1,
      out: '',
      errors: expect.stringMatching(/^flashnode: the temporary directory cannot be created: .*\n$/),
    })
  })
})
