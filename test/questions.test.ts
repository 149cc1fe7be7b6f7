import { describe, expect, test } from 'vitest'
import { createQuestions } from '../workers/questions.ts'

describe('questions to another thread', () => {
  test('each gets its own answer, in any order', async () => {
    const questions = createQuestions<string>(10_000)
    const sent: number[] = []
    const answers = [1, 2].map(() => questions.ask((request) => sent.push(request)))
    questions.answer(sent[1]!, 'second')
    questions.answer(sent[0]!, 'first')
    expect(await Promise.all(answers)).toEqual(['first', 'second'])
  })

  test('an answer may be nothing', async () => {
    const questions = createQuestions<string>(10_000)
    const answer = questions.ask((request) => questions.answer(request, undefined))
    expect(await answer).toBeUndefined()
  })

  test('given up when it takes too long; a late answer is no one else’s', async () => {
    const questions = createQuestions<string>(1)
    let late = 0
    expect(await questions.ask((request) => (late = request))).toBeUndefined()
    const next = questions.ask((request) => {
      questions.answer(late, 'late')
      questions.answer(request, 'in time')
    })
    expect(await next).toBe('in time')
  })
})
