/**
 * Starts a node and stops it when it is ready, which fills Node's compile cache.
 * npm runs this file after installing, so the first start is as fast as the second (docs/adr/0026).
 * If it fails, the first start compiles by itself.
 */
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const MAIN = fileURLToPath(new URL('./main.ts', import.meta.url))
/** The script gives up after this time; the first start then compiles by itself. */
const LIMIT_MS = 60_000

const node = spawn(
  process.execPath,
  [MAIN, 'dev', '--ephemeral', '--port', '0', '--admin-port', '0'],
  { stdio: ['ignore', 'pipe', 'ignore'] },
)
const limit = setTimeout(() => node.kill('SIGKILL'), LIMIT_MS)
let output = ''
const isReady = () => /^flashnode ready/m.test(output)
node.stdout.setEncoding('utf8').on('data', (text: string) => {
  output += text
  if (isReady()) node.kill('SIGTERM')
})
node.once('exit', () => {
  clearTimeout(limit)
  if (!isReady()) process.stdout.write('the compile cache is empty: the first start takes longer\n')
})
