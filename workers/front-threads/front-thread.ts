/** A front thread: a front with its own pool, on a port that all front threads share. */
import { parentPort, workerData } from 'node:worker_threads'
import { createLog } from '../observe/log.ts'
import { createReporter } from '../observe/reporter.ts'
import type { NodeContext } from '../process/context.ts'
import { createLifecycle } from '../process/lifecycle.ts'
import { createInbox } from '../thread/inbox.ts'
import { requestFilter } from './filters.ts'
import type {
  FromFrontThread,
  FrontThreadData,
  FrontThreadQuestions,
  MainQuestions,
  ToFrontThread,
} from './messages.ts'
import { createRequestSide, createResponseSide, type RequestHandlers } from './requests.ts'
import { openThreadFront, type ThreadFront } from './thread-front.ts'

const ALIVE_MS = 1_000

const post = (message: FromFrontThread): void => parentPort!.postMessage(message)
const inbox = createInbox<ToFrontThread>()
parentPort!.on('message', inbox.push)
void start(workerData as FrontThreadData)

async function start(data: FrontThreadData): Promise<void> {
  const context = openContext(data)
  const { request, onResponse } = createRequestSide<keyof FrontThreadQuestions>(post)
  const front = await openThreadFront(context, data, { request, post })
  const responseSide = createResponseSide(requestHandlers(front, context), post, (err) =>
    context.reporter.report('call_failed', { err, method: 'cell' }),
  )
  inbox.open((message) => {
    if (message.type === 'ask') responseSide.onRequest(message.request, message.question)
    else if (message.type === 'answer') onResponse(message.request, message.response)
    else front.onMessage(message)
  })
  post({ type: 'ready' })
  setInterval(() => post({ type: 'alive' }), ALIVE_MS).unref()
}

function openContext({ config, log: logOptions, incidents }: FrontThreadData): NodeContext {
  const log = createLog(logOptions)
  const reporter = createReporter(log, incidents)
  const lifecycle = createLifecycle({
    onProblem: (part, reason) => reporter.report('part_not_stopped', { part, reason }),
  })
  const fail = (message: string) => post({ type: 'failed', message })
  return { config, log, reporter, logOptions, lifecycle, fail }
}

function requestHandlers(
  frontThread: ThreadFront,
  { lifecycle }: NodeContext,
): RequestHandlers<keyof MainQuestions> {
  const { front, metrics } = frontThread
  return {
    async listen({ port }) {
      try {
        return await front.listen(port, true)
      } catch (error) {
        const { code = '', message } = error as NodeJS.ErrnoException
        return { code, message }
      }
    },
    ownFilter: (request) => requestFilter(front.filters, request),
    async drain({ withinMs }) {
      await front.server.drain(withinMs)
      return {}
    },
    async close({ withinMs }) {
      await lifecycle.stop(withinMs)
      return {}
    },
    reloadKeys: () => ({ count: front.reloadKeys?.() }),
    metrics: async () => ({ text: await metrics.text() }),
    metric: async ({ name }) => ({ values: await metrics.read(name) }),
    stats: () => ({ pool: frontThread.pool(), front: front.stats() }),
  }
}
