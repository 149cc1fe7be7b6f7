/** What HAProxy's agent-check is told, over its port. */
import { connect } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { agentLine, startAgent } from '../../../workers/observe/agent.ts'

const weigh = (weight: number) => ({ weight: () => weight })
const health = (status: 'ready' | 'degraded' | 'unready', reasons: readonly string[] = []) => ({
  isStopping: false,
  readiness: () => ({ status, reasons, details: {} }),
})

test.each([
  ['ready', agentLine(health('ready'), weigh(75)), 'up ready 75%\n'],
  ['degraded', agentLine(health('degraded', ['a feed is silent']), weigh(20)), 'up ready 20%\n'],
  ['unready', agentLine(health('unready', ['a', 'b']), weigh(75)), 'down #a, b\n'],
  [
    'unready with what no line has',
    agentLine(health('unready', ['é\r\nup 100%', 'x'.repeat(300)]), weigh(75)),
    `down # up 100%, ${'x'.repeat(190)}\n`,
  ],
  ['ending', agentLine({ ...health('unready'), isStopping: true }, weigh(75)), 'drain\n'],
])('%s', (_name, line, expected) => expect(line).toBe(expected))

async function ask(port: number, said = ''): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  if (said !== '') socket.write(said)
  let text = ''
  for await (const chunk of socket) text += chunk
  return text
}

test('each connection is one line, whatever it says', async () => {
  let weight = 100
  const agent = await startAgent({ host: '127.0.0.1', port: 0 }, () => `up ready ${weight}%\n`)
  onTestFinished(agent.close)
  expect(await ask(agent.port)).toBe('up ready 100%\n')
  weight = 55
  expect(await ask(agent.port, 'anything\n')).toBe('up ready 55%\n')
})

test('a port that is taken is said by the system', async () => {
  const agent = await startAgent({ host: '127.0.0.1', port: 0 }, () => '')
  onTestFinished(agent.close)
  const again = startAgent({ host: '127.0.0.1', port: agent.port }, () => '')
  await expect(again).rejects.toThrow('EADDRINUSE')
})
