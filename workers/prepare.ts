/**
 * Starts a node and stops it when it is ready, so that Node's compile cache has all that a start loads: npm runs it when it has installed
 * the packages, and the first start takes no longer than the second (docs/adr/0026). Where this goes wrong, that start compiles for itself.
 */
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const MAIN = fileURLToPath(new URL('./main.ts', import.meta.url))
/** A machine that needs longer has other worries. */
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
  if (!isReady())
    process.stdout.write('nothing is compiled ahead: the first start will take longer\n')
})
