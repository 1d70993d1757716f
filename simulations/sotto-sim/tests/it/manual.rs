//! Manual pages and completions.

use assert_cmd::Command;

#[test]
fn every_program_has_a_page_for_each_command_and_completions() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("manual");
    Command::new(env!("CARGO_BIN_EXE_sotto-sim")).args(["manual", "--out"]).arg(&out).assert().success();
    let text = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    let programs = [("sottod", sottod::cli::command()), ("sotto", sotto::cli::command())];
    for (name, program) in programs {
        assert!(text(&format!("man1/{name}.1")).contains(".SH SYNOPSIS"));
        let commands: Vec<_> = program.get_subcommands().filter(|command| !command.is_hide_set()).collect();
        assert!(commands.len() > 5);
        for command in commands {
            let page = text(&format!("man1/{name}-{}.1", command.get_name()));
            assert!(page.contains(".SH DESCRIPTION"), "{page}");
            assert!(text(&format!("bash/{name}.bash")).contains(command.get_name()));
        }
        assert!(text(&format!("zsh/_{name}")).starts_with(&format!("#compdef {name}")));
        assert!(text(&format!("fish/{name}.fish")).contains(&format!("complete -c {name}")));
    }
    assert!(text("man1/sotto-sim-plan.1").contains(".SH"));
}
