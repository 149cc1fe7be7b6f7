/**
 * Measures seconds from the start of a process to its line "flashnode ready". The process of `npm
 * start` in this checkout and `flashnode dev` from the packed file take turns. It measures the
 * first start, with nothing compiled, and the next one; results are medians.
 * Usage: npm run bench:package -- [--rounds 5]
 */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { readStartScript } from '../test/kit/start-script.ts'

const { values } = parseArgs({ options: { rounds: { type: 'string', default: '5' } } })
const rounds = Number(values.rounds)
const work = mkdtempSync(join(tmpdir(), 'flashnode-bench-package-'))
process.once('exit', () => rmSync(work, { recursive: true, force: true }))

function installed(): string {
  execFileSync(process.execPath, ['test/package/tarball.ts', '--to', work], { stdio: 'ignore' })
  const tarball = readdirSync(work).find((name) => name.endsWith('.tgz'))!
  writeFileSync(join(work, 'package.json'), '{"private":true}')
  const argv = ['install', '--no-audit', '--no-fund', '--ignore-scripts', `./${tarball}`]
  execFileSync('npm', argv, { cwd: work, stdio: 'ignore' })
  return work
}

type Side = {
  readonly name: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly compiled: string
}
const script = readStartScript()
const sides: readonly Side[] = [
  {
    name: 'checkout',
    args: [...script.execArgv, 'workers/main.ts'],
    env: script.env,
    compiled: 'node_modules/.cache',
  },
  {
    name: 'package',
    args: [join(installed(), 'node_modules/flashnode/dist/workers/package/bin.js')],
    env: {},
    compiled: join(work, 'node_modules/.cache'),
  },
]

async function ready({ args, env }: Side): Promise<number> {
  const started = performance.now()
  const { NODE_COMPILE_CACHE: _, ...around } = process.env
  const flags = ['dev', '--ephemeral', '--port', '0', '--admin-port', '0']
  const child = spawn(process.execPath, [...args, ...flags], {
    env: { ...around, ...env },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const ended = once(child, 'exit')
  let output = ''
  for await (const chunk of child.stdout.setEncoding('utf8')) {
    output += chunk
    if (/^flashnode ready/m.test(output)) break
  }
  const seconds = (performance.now() - started) / 1_000
  child.kill('SIGTERM')
  await ended
  return seconds
}

const samples = sides.map(() => ({ first: [] as number[], second: [] as number[] }))
for (let round = 0; round < rounds; round++)
  for (const [at, side] of sides.entries()) {
    rmSync(side.compiled, { recursive: true, force: true })
    samples[at]!.first.push(await ready(side))
    samples[at]!.second.push(await ready(side))
  }
const median = (list: readonly number[]) => list.toSorted((a, b) => a - b)[list.length >> 1]!
console.log(`${cpus().length} cores, Node ${process.version}, ${rounds} rounds\n`)
console.log('| start | package s | checkout s | ratio |\n|---|---|---|---|')
for (const [kind, name] of [
  ['first', 'first, nothing compiled'],
  ['second', 'second, new data directory'],
] as const) {
  const [checkout, packed] = samples.map((one) => median(one[kind]))
  console.log(
    `| ${name} | ${packed!.toFixed(2)} | ${checkout!.toFixed(2)} | ${(packed! / checkout!).toFixed(2)} |`,
  )
}
