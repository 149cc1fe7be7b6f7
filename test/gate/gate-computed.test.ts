/** These checks of the gate run beside the others, and leave them the processors. */
import { COMPUTED } from './list.ts'
import { steps } from './steps.ts'

steps(COMPUTED, 'gate', { isYielding: true })
