/** The gate runs these checks from outside for every change. */
import { describe } from 'vitest'
import { ALONE, AT_ONCE } from './list.ts'
import { steps } from './steps.ts'

describe.concurrent('checks that run at the same time', () => steps(AT_ONCE, 'gate'))
steps(ALONE, 'gate')
