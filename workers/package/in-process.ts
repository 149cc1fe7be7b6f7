/** Runs a node inside the calling process, which it leaves clean after closing. */
import type { Client } from '../../rpc/core/client.ts'
import { dev } from '../commands/dev/command.ts'
import type { DevConfig } from '../commands/dev/flags.ts'
import { devRole } from '../commands/dev/role.ts'
import { readInvocation } from '../config/config.ts'
import { startNode } from '../node/start.ts'
import { createLog } from '../observe/log.ts'
import { createReporter } from '../observe/reporter.ts'
import { createLifecycle } from '../process/lifecycle.ts'
import type { EndpointName, OnMessage, Started, StartOptions } from './transport.ts'

/** @throws {Error} saying what is wrong */
export async function startInProcess({ argv, hasPort, onMessage }: StartOptions): Promise<Started> {
  const config = configOf(argv)
  const logOptions = { level: config.logLevel, isPretty: config.logFormat === 'pretty' }
  const log = createLog(logOptions)
  const reporter = createReporter(log)
  const lifecycle = createLifecycle({
    onProblem: (part, reason) => reporter.report('part_not_stopped', { part, reason }),
  })
  let ended: Error | undefined
  const failed = Promise.withResolvers<never>()
  // This prevents an unhandled rejection if no caller waits.
  failed.promise.catch(() => {})
  const fail = (message: string) => {
    ended ??= new Error(`the node has failed: ${message}`)
    failed.reject(ended)
    void lifecycle.stop()
  }
  const role = { ...devRole(config), isQuiet: true, isGuest: true, hasNoPort: !hasPort }
  try {
    const starting = startNode({ config, log, reporter, logOptions, lifecycle, fail }, role)
    const served = await Promise.race([starting, failed.promise])
    const clients = openClients(onMessage)
    return {
      url: served!.url,
      async request(endpoint, body) {
        if (ended !== undefined) throw ended
        const response = served!.respond(body, clients.of(endpoint))
        const { text } = await Promise.race([response, failed.promise])
        return text ?? ''
      },
      async close() {
        ended ??= new Error('the node is closed')
        await lifecycle.stop()
        clients.leave()
        failed.reject(ended)
      },
    }
  } catch (error) {
    await lifecycle.stop()
    throw error
  }
}

/**
 * The environment is ignored, so that a test determines its node completely.
 * @throws {ConfigError}
 */
function configOf(argv: readonly string[]): DevConfig {
  const invocation = readInvocation([dev.name, ...argv], {}, { commands: [dev], notYet: [] })
  if (invocation.action !== 'run') throw new Error(invocation.text)
  return invocation.config as unknown as DevConfig
}

/** Makes one client for each endpoint, equal to those of sockets. */
function openClients(onMessage: OnMessage) {
  const gone = new AbortController()
  const clientOf = (endpoint: EndpointName): Client => ({
    address: '127.0.0.1',
    endpoint,
    notify(messages) {
      for (const message of messages) onMessage(endpoint, Buffer.concat(message).toString())
      return !gone.signal.aborted
    },
    get isGone() {
      return gone.signal.aborted
    },
    signal: gone.signal,
  })
  const clients = { standard: clientOf('standard'), flashblocks: clientOf('flashblocks') }
  return { of: (endpoint: EndpointName) => clients[endpoint], leave: () => gone.abort() }
}
