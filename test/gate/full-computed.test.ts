/** These checks of the full run run beside the others, and leave them the processors. */
import { COMPUTED } from './list.ts'
import { steps } from './steps.ts'

steps(COMPUTED, 'full', { isYielding: true })
