// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

import type { ComponentChildren, JSX } from "preact";
import { useId } from "preact/hooks";

import { stepAt, stepFrom } from "../steps";

interface FieldProps {
  label: string;
  value: string;
  onChange: (value: string) => void;
  /** What is wrong with the value. */
  problem?: string | undefined;
  /** What else is worth knowing about the value. */
  hint?: string | undefined;
  /** What holds if there is no value. */
  placeholder?: string;
}

/** What ties a control to its label and its problem. */
interface Tied {
  id: string;
  "aria-invalid": boolean;
  "aria-describedby"?: string;
}

function Field({ label, problem, hint, children }: Pick<FieldProps, "label" | "problem" | "hint"> & { children: (tied: Tied) => ComponentChildren }): JSX.Element {
  const id = useId();
  const note = problem ?? hint;
  const tied: Tied = { id, "aria-invalid": problem !== undefined, ...(note ? { "aria-describedby": `${id}-note` } : {}) };
  return (
    <div class="field column">
      <label for={id}>{label}</label>
      {children(tied)}
      {note && <small id={`${id}-note`} class={problem ? "bad" : ""}>{note}</small>}
    </div>
  );
}

export function TextField({ label, value, onChange, problem, hint, placeholder, suggestions }: FieldProps & { suggestions?: readonly string[] }): JSX.Element {
  const list = useId();
  return (
    <Field label={label} problem={problem} hint={hint}>
      {(tied) => (
        <>
          <input type="text" {...tied} value={value} placeholder={placeholder} autocomplete="off" spellcheck={false} {...(suggestions ? { list } : {})} onInput={(event) => onChange(event.currentTarget.value.trim())} />
          {suggestions && <datalist id={list}>{suggestions.map((name) => <option key={name} value={name} />)}</datalist>}
        </>
      )}
    </Field>
  );
}

/** A list to choose from; a value that is not in it is shown all the same. */
export function SelectField({ label, value, onChange, problem, options }: FieldProps & { options: readonly { value: string; label: string }[] }): JSX.Element {
  const known = options.some((option) => option.value === value);
  return (
    <Field label={label} problem={problem}>
      {(tied) => (
        <select {...tied} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
          {options.map((option) => <option key={option.value} value={option.value}>{option.label}</option>)}
          {!known && <option value={value}>{value} (not known here)</option>}
        </select>
      )}
    </Field>
  );
}

/** An amount that is typed, or changed by buttons and a slider. */
export function Stepper({ label, value, onChange, problem, placeholder = "1", steps, slider }: FieldProps & { steps: readonly string[]; slider?: boolean }): JSX.Element {
  const now = value || placeholder;
  const amount = Number.isFinite(Number(now)) ? now : steps[0]!;
  return (
    <Field label={label} problem={problem}>
      {(tied) => (
        <>
          <span class="stepper">
            <button type="button" aria-label={`${label}: fewer`} disabled={stepFrom(steps, amount, -1) === amount} onClick={() => onChange(stepFrom(steps, amount, -1))}>−</button>
            <input type="text" inputMode="decimal" {...tied} value={value} placeholder={placeholder} autocomplete="off" onInput={(event) => onChange(event.currentTarget.value.trim())} />
            <button type="button" aria-label={`${label}: more`} onClick={() => onChange(stepFrom(steps, amount, 1))}>+</button>
          </span>
          {slider && (
            <input type="range" aria-label={`${label}: slider`} aria-valuetext={amount} min={0} max={steps.length - 1} value={stepAt(steps, amount)} onInput={(event) => onChange(steps[Number(event.currentTarget.value)]!)} />
          )}
        </>
      )}
    </Field>
  );
}
