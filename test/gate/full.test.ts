/** The full run executes every check from outside in its full size. */
import { describe } from 'vitest'
import { ALONE, AT_ONCE } from './list.ts'
import { steps } from './steps.ts'

describe.concurrent('checks that run at the same time', () => steps(AT_ONCE, 'full'))
steps(ALONE, 'full')
