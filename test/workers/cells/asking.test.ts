import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import {
  type Answers,
  type AskedFor,
  createAnswerSide,
  createAsker,
} from '../../../workers/cells/asking.ts'
import type { MainQuestions } from '../../../workers/cells/messages.ts'

type Asked = keyof MainQuestions
const NOT_ASKED = () => {
  throw new Error('nobody asks that')
}
const QUIET: Answers<Asked> = {
  ...{ listen: NOT_ASKED, ownFilter: NOT_ASKED, drain: NOT_ASKED, close: NOT_ASKED },
  ...{ reloadKeys: NOT_ASKED, metrics: NOT_ASKED, metric: NOT_ASKED, stats: NOT_ASKED },
}

/** Both sides of a channel, each message copied as between threads. */
function pair(answers: Partial<Answers<Asked>>) {
  const bugs: unknown[] = []
  const answering = createAnswerSide<Asked>(
    { ...QUIET, ...answers },
    (message) => {
      const { request, answer } = structuredClone(message)
      asking.answered(request, answer)
    },
    (error) => bugs.push(error),
  )
  const asking = createAsker<Asked>((message) => {
    const copy = structuredClone(message)
    if (copy.type === 'ask') answering.asked(copy.request, copy.question)
    else answering.gone(copy.request)
  })
  return { asking, answering, bugs }
}

describe('questions between the main thread and a cell', () => {
  test('each is answered by its own, with what was asked', async () => {
    const { asking } = pair({
      metrics: () => ({ text: 'all' }),
      metric: async ({ name }) => ({ values: [{ part: '', labels: { name }, value: 1 }] }),
    })
    expect(await asking.ask<'metrics'>({ what: 'metrics' })).toEqual({ text: 'all' })
    const one = await asking.ask<'metric'>({ what: 'metric', name: 'a' })
    expect(one).toEqual({ values: [{ part: '', labels: { name: 'a' }, value: 1 }] })
  })

  test('one that fails is answered with nothing, and told of', async () => {
    const { asking, bugs } = pair({})
    expect(await asking.ask<'stats'>({ what: 'stats' })).toBeUndefined()
    expect(bugs).toEqual([new Error('nobody asks that')])
  })

  test('who answers hears that nobody waits any more', async () => {
    let heard: AskedFor | undefined
    const { asking, answering } = pair({
      drain: (_, asked) => {
        heard = asked
        return new Promise(() => {})
      },
    })
    const gone = new AbortController()
    void asking.ask<'drain'>({ what: 'drain', withinMs: 5 }, { signal: gone.signal })
    await turn()
    expect(heard?.isGone).toBe(false)
    gone.abort()
    expect(heard?.isGone).toBe(true)
    void asking.ask<'drain'>({ what: 'drain', withinMs: 5 })
    await turn()
    expect(heard?.isGone).toBe(false)
    answering.close()
    expect(heard?.signal.aborted).toBe(true)
  })

  test('what is open when the other side ends is answered with nothing', async () => {
    const { asking } = pair({ close: () => new Promise(() => {}) })
    const open = asking.ask<'close'>({ what: 'close', withinMs: 1_000 })
    asking.close()
    expect(await open).toBeUndefined()
    // Nobody is left who could answer.
    expect(await asking.ask<'close'>({ what: 'close', withinMs: 1_000 })).toBeUndefined()
  })
})
