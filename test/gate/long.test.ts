/** These checks take hours and run for a release. */
import { LONG } from './list.ts'
import { steps } from './steps.ts'

steps(LONG, 'full', { seconds: 14_400 })
