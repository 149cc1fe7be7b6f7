/** What the page draws with: the only module that knows preact and htm. Text that is put into a template is text, whatever it says. */
import htm from 'htm'
import * as preact from 'preact'
import * as hooks from 'preact/hooks'

export const html = htm.bind(preact.h)
export type View = ReturnType<typeof html> | string | number | null | undefined | readonly View[]
export const { render } = preact
export const { useEffect, useRef, useState } = hooks
