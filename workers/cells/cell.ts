/** A cell's thread: a front like that of the main thread, with a pool of its own, on a port that all cells share. */
import { parentPort, workerData } from 'node:worker_threads'
import { createLog } from '../observe/log.ts'
import { createReporter } from '../observe/reporter.ts'
import type { NodeContext } from '../process/context.ts'
import { createLifecycle } from '../process/lifecycle.ts'
import { createInbox } from '../thread/inbox.ts'
import { type Answers, createAnswerSide, createAsker } from './asking.ts'
import { type CellFront, openCellFront } from './cell-front.ts'
import { askFilter } from './filters.ts'
import type { CellData, CellQuestions, FromCell, MainQuestions, ToCell } from './messages.ts'

const ALIVE_MS = 1_000

const post = (message: FromCell): void => parentPort!.postMessage(message)
const inbox = createInbox<ToCell>()
parentPort!.on('message', inbox.push)
void start(workerData as CellData)

async function start(data: CellData): Promise<void> {
  const context = openContext(data)
  const { ask, answered } = createAsker<keyof CellQuestions>(post)
  const front = await openCellFront(context, data, { ask, post })
  const answers = createAnswerSide(answersOf(front, context), post, (err) =>
    context.reporter.report('call_failed', { err, method: 'cell' }),
  )
  inbox.open((message) => {
    if (message.type === 'ask') answers.asked(message.request, message.question)
    else if (message.type === 'answer') answered(message.request, message.answer)
    else front.hear(message)
  })
  post({ type: 'ready' })
  setInterval(() => post({ type: 'alive' }), ALIVE_MS).unref()
}

function openContext({ config, log: logOptions, mishaps }: CellData): NodeContext {
  const log = createLog(logOptions)
  const reporter = createReporter(log, mishaps)
  const lifecycle = createLifecycle({
    onProblem: (part, reason) => reporter.report('part_not_stopped', { part, reason }),
  })
  const fail = (message: string) => post({ type: 'failed', message })
  return { config, log, reporter, logOptions, lifecycle, fail }
}

/** What the main thread asks. */
function answersOf(cell: CellFront, { lifecycle }: NodeContext): Answers<keyof MainQuestions> {
  const { front, metrics } = cell
  return {
    async listen({ port }) {
      try {
        return await front.listen(port, true)
      } catch (error) {
        const { code = '', message } = error as NodeJS.ErrnoException
        return { code, message }
      }
    },
    ownFilter: (asked) => askFilter(front.filters, asked),
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
    stats: () => ({ pool: cell.pool(), front: front.stats() }),
  }
}
